"""The models that the user can switch to: files of this machine, what the services in use have, earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from urllib.parse import unquote

from ..backends import choose_backend
from ..backends.openai.backend import list_service_models
from ..backends.shared.model_files import find_models
from ..config.settings import Settings
from ..core.errors import ChatError

_MAX_SERVICE_LISTS = 4


@dataclass(frozen=True)
class ModelOffer:
    """A model.

    Attributes:
        name: Short name to call it by.
        target: What `--model` takes: a path or a URL with the model behind `#`.
        size_bytes: Size of the file; 0 for a service.
    """

    name: str
    target: str
    size_bytes: int = 0

    @property
    def names(self) -> set[str]:
        """All names that it can be called by."""
        path = PurePath(self.target)
        return {self.name, self.target, *({path.name, path.stem} if "://" not in self.target else ())}


def find_offers(settings: Settings, used: Sequence[str] = ()) -> list[ModelOffer]:
    """Return the models of the services, then the files, then earlier models; blocks while folders and services answer.

    Args:
        settings: Current settings.
        used: Models that were in use before, as `--model` takes them.
    """
    models = list(dict.fromkeys(model for model in (settings.model, *used) if model))
    targets: list[str] = []
    services = [model for model in models if choose_backend(replace(settings, model=model, backend="auto")) == "openai"]
    for model in services[:_MAX_SERVICE_LISTS]:
        targets += _list_service(replace(settings, model=model)) or [model]
    offers = [ModelOffer(_name_of(target), target) for target in dict.fromkeys(targets)]
    offers += [
        ModelOffer(file.name, file.name if file.is_shipped else str(file.path), file.size_bytes)
        for file in find_models(settings.models_folder, settings.model)
    ]
    known = {name for offer in offers for name in offer.names}
    return offers + [ModelOffer(_name_of(model), model) for model in models if model not in {*known, *services}]


def find_service_offers(settings: Settings, url: str) -> list[ModelOffer]:
    """Return the models of the service at a URL that names none of them; blocks while it answers."""
    if "://" not in url or "#" in url:
        return []
    return [ModelOffer(_name_of(target), target) for target in _list_service(replace(settings, model=url))]


def find_offer(name: str, offers: Iterable[ModelOffer]) -> ModelOffer | None:
    """Return the only offer with this name; None if there is none or several."""
    matches = [offer for offer in offers if name in offer.names]
    return matches[0] if len(matches) == 1 else None


def _list_service(settings: Settings) -> list[str]:
    """Return the models of services as targets; none if the settings are invalid."""
    try:
        return list_service_models(settings)
    except ChatError:
        return []


def _name_of(target: str) -> str:
    """Return the short name of a target."""
    return unquote(target.partition("#")[2]) or PurePath(target).name
