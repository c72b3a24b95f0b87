"""Files that native code or Jinja reads because a folder's configuration names them: the user accepts their contents.

A project's configuration may name a local model and its projector. With the model come the files beside it that the
engine finds by itself. They are accepted together by their SHA-256, in the same store as a project's servers; files
that the user names are not asked about.
"""

from __future__ import annotations

from pathlib import Path

from ..config.accepted_files import Review, has_accepted_files, review_files
from ..config.files import TRUST_VARIABLE
from ..config.loader import state_folder
from ..config.project_trust import TrustStore
from ..config.settings import Settings
from ..config.trust_rules import Origin
from ..core.errors import ConfigError
from ..core.user_paths import path_exists
from .rkllm.model_file import SIDECARS
from .rkllm.vision_families import find_encoder
from .shared.model_files import find_parts, find_projector, find_shipped_model, resolve_model


def list_project_files(settings: Settings) -> list[Path]:
    """Return the files that are read because a project's configuration names them; what the user named is left out."""
    names_model, names_projector = (settings.origins.get(key) is Origin.PROJECT for key in ("model", "mmproj"))
    model, found = resolve_model(settings.model), list[Path | None]()
    if names_model and model != find_shipped_model():
        encoder = None if settings.rkllm.encoder else find_encoder(model, "")
        found = [model, *find_parts(model), encoder[0] if encoder else None, *map(model.with_name, SIDECARS)]
    if names_projector or (found and not settings.mmproj):
        found.append(find_projector(model, settings.mmproj))
    return [path for path in dict.fromkeys(found) if path and (path == model or path_exists(str(path)))]


def review_project_files(settings: Settings, trust_store: TrustStore) -> Review:
    """Return the files to ask the user about, as they are now; none if there are none or they are accepted.

    Raises:
        ModelError: A file is missing, too large, or no regular file.
    """
    return review_files(list_project_files(settings), trust_store)


def check_project_files(settings: Settings) -> None:
    """Raise ConfigError unless the user has accepted what would be read; ModelError for what cannot be a model."""
    files, trust_store = list_project_files(settings), TrustStore(str(state_folder()))
    # without a record nothing need be read to know the answer
    if not files or (has_accepted_files(trust_store) and not review_files(files, trust_store)):
        return
    accept = f"rkllm-chat mcp trust {settings.model if files[0] == resolve_model(settings.model) else settings.mmproj}"
    raise ConfigError(
        f"The configuration of this folder names {', '.join(map(str, files))}, which native code would read, and you"
        " have not accepted the present contents.",
        f"Run: {accept}. Or name a model yourself with --model, or set {TRUST_VARIABLE}=1 if you trust every folder.",
        path=str(files[0]),
        accept=accept,
    )
