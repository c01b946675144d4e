"""What torch sees as its ``DynamoCache`` while hotstart is enabled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotstart.log import logger

if TYPE_CHECKING:
    from hotstart.integration.session import Session


class StoreFace:
    """The session's store, with the calls that torch makes after each compile going through the
    session, so that none of them can raise into a compile."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def record_package(self, package: Any) -> None:
        self._session.record(package)

    def write(self, cache_entry: Any, path: str) -> None:
        """Called by ``PrecompileContext.save_to_dynamo_cache`` for each package."""
        try:
            self._session.store.write(cache_entry, path)
        except Exception as e:
            logger.warning("cannot save the package %s: %s", path, e)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session.store, name)
