"""What browsers and authenticators say of a passkey, checked by the library of the extra `webauthn`."""

import importlib
import json
from collections.abc import Sequence
from typing import Any

from journal.values import JsonObject

from .link import SITE
from .lockout import SignInRefused
from .passkey_file import LIBRARY, Passkey

_NAME = "steprelay"
_TIMEOUT_MS = 120_000


def creation_options(challenge: bytes, passkeys: Sequence[Passkey]) -> JsonObject:
    """What a browser is to make a passkey with, on an authenticator that has none of these."""
    library, structs = _library(), _helpers("structs")
    options = library.generate_registration_options(
        rp_id=SITE,
        rp_name=_NAME,
        user_name=_NAME,
        challenge=challenge,
        timeout=_TIMEOUT_MS,
        authenticator_selection=structs.AuthenticatorSelectionCriteria(
            resident_key=structs.ResidentKeyRequirement.DISCOURAGED,
            user_verification=structs.UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=_descriptors(passkeys),
    )
    return _as_json(options)


def request_options(challenge: bytes, passkeys: Sequence[Passkey]) -> JsonObject:
    """What a browser is to have one of these passkeys sign."""
    structs = _helpers("structs")
    options = _library().generate_authentication_options(
        rp_id=SITE,
        challenge=challenge,
        timeout=_TIMEOUT_MS,
        allow_credentials=_descriptors(passkeys),
        user_verification=structs.UserVerificationRequirement.REQUIRED,
    )
    return _as_json(options)


def registered(credential: JsonObject, challenge: bytes, *, origin: str, name: str, at: float) -> Passkey:
    """The passkey that was made for this challenge, by somebody whom the authenticator verified.

    Raises SignInRefused.
    """
    library, helpers = _library(), _helpers()
    try:
        made = library.verify_registration_response(
            credential=credential,
            expected_challenge=challenge,
            expected_rp_id=SITE,
            expected_origin=origin,
            require_user_verification=True,
        )
    except _refusals() as error:
        raise SignInRefused(f"the passkey was not taken: {error}") from error
    id_, key = (helpers.bytes_to_base64url(each) for each in (made.credential_id, made.credential_public_key))
    return Passkey(id_, key, name, made.sign_count, at)


def verified(assertion: JsonObject, challenge: bytes, *, origin: str, passkey: Passkey) -> int:
    """The passkey's counter, if it has signed this challenge for somebody whom the authenticator verified.

    Raises SignInRefused.
    """
    library = _library()
    try:
        used = library.verify_authentication_response(
            credential=assertion,
            expected_challenge=challenge,
            expected_rp_id=SITE,
            expected_origin=origin,
            credential_public_key=library.base64url_to_bytes(passkey.key),
            credential_current_sign_count=passkey.counter,
            require_user_verification=True,
        )
    except _refusals() as error:
        raise SignInRefused(f"the passkey was not taken: {error}") from error
    return int(used.new_sign_count)


def challenge_in(said: JsonObject) -> bytes:
    """The challenge that a browser says it was given; not yet checked. Raises SignInRefused."""
    helpers = _helpers()
    try:
        text: Any = said["response"]["clientDataJSON"]
        challenge: bytes = helpers.parse_client_data_json(helpers.base64url_to_bytes(text)).challenge
    except _refusals() as error:
        raise SignInRefused("that is no answer of a browser about a passkey") from error
    return challenge


def _descriptors(passkeys: Sequence[Passkey]) -> list[Any]:
    library, structs = _library(), _helpers("structs")
    return [structs.PublicKeyCredentialDescriptor(id=library.base64url_to_bytes(each.id)) for each in passkeys]


def _as_json(options: Any) -> JsonObject:
    made: JsonObject = json.loads(_library().options_to_json(options))
    return made


def _refusals() -> tuple[type[Exception], ...]:
    """What the library raises for an answer that is wrong, and what it stumbles over in one that is no answer."""
    errors = _helpers("exceptions")
    return errors.WebAuthnException, ValueError, LookupError, TypeError, AttributeError


def _library() -> Any:
    return importlib.import_module(LIBRARY)


def _helpers(name: str = "") -> Any:
    return importlib.import_module(f"{LIBRARY}.helpers{f'.{name}' if name else ''}")
