"""A server of SMTP for tests. It says where it listens, then prints each message as a line of JSON.

Recipients say how it behaves: `refused@` is none of its own, `stall@` has it never answer a message, `cut@` has it close the connection in the middle of one.
"""

import argparse
import asyncio
import json
import ssl

from aiosmtpd.smtp import SMTP, AuthResult


class Handler:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("refused@"):
            return "550 5.1.1 nobody of that name"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 Ok"

    async def handle_DATA(self, server, session, envelope):
        names = {address.split("@")[0] for address in envelope.rcpt_tos}
        if "stall" in names:
            await asyncio.sleep(3600)
        if "cut" in names:
            server.transport.abort()
            await asyncio.sleep(3600)
        message = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "user": session.auth_data,
            "encrypted": session.ssl is not None or server.transport.get_extra_info("ssl_object") is not None,
            "data": envelope.original_content.decode("ascii"),
        }
        print(json.dumps(message), flush=True)
        return "250 2.0.0 Ok: queued as 4F1B2"


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tls", choices=["none", "starttls", "implicit"], default="none")
    parser.add_argument("--cert")
    parser.add_argument("--key")
    parser.add_argument("--mechanism", default="PLAIN")
    parser.add_argument("--user")
    parser.add_argument("--password")
    given = parser.parse_args()

    context = None
    if given.tls != "none":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(given.cert, given.key)

    def authenticate(server, session, envelope, mechanism, data):
        pair = (data.login.decode(), data.password.decode())
        return AuthResult(success=pair == (given.user, given.password), auth_data=pair[0], handled=False)

    def protocol():
        return SMTP(
            Handler(),
            hostname="mail.test",
            tls_context=context if given.tls == "starttls" else None,
            require_starttls=given.tls == "starttls",
            authenticator=authenticate,
            auth_required=given.user is not None,
            auth_require_tls=given.tls == "starttls",
            auth_exclude_mechanism=[name for name in ("PLAIN", "LOGIN") if name != given.mechanism],
        )

    implicit = context if given.tls == "implicit" else None
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0, ssl=implicit)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
