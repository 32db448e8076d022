"""The smallest WSGI application."""


def app(environ, start_response):
    body = b'{"hello":"world"}'
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
