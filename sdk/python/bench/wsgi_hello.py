def app(environ, start_response):
    start_response("200 OK", [("content-type", "application/json"), ("content-length", "17")])
    return [b'{"hello":"world"}']
