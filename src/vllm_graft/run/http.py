"""Fetching over HTTP, with the user's proxies."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from typing import IO, cast
from urllib.parse import urlsplit

_PATIENCE = 60.0
"""Seconds without a byte."""

Response = http.client.HTTPResponse
Refused = urllib.error.HTTPError
Unreachable = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError)
"""What fetching raises; :data:`Refused` is one of them."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Registries send to a store on another host, which must not see the user's credentials."""

    def redirect_request(  # noqa: PLR0913, PLR0917 (as it is called)
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Leave the credentials out where the host is another, or the next step is not encrypted."""
        found = super().redirect_request(req, fp, code, msg, headers, newurl)  # pyright: ignore[reportArgumentType]
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if found is not None and (before.netloc, before.scheme) != (after.netloc, after.scheme):
            found.headers.pop("Authorization", None)
        return found


def fetch(url: str, headers: Mapping[str, str]) -> Response:
    """Begin to read what is at an address.

    Raises:
        URLError: and the others of :data:`Unreachable`.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        message = f"not an address of HTTP: {url}"
        raise urllib.error.URLError(message)
    opener = urllib.request.build_opener(_Redirects())
    request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 (looked at above)
    return cast("Response", opener.open(request, timeout=_PATIENCE))
