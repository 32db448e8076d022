# Runs what a test sends it: a confined worker whose code has been taken over.
import errno

from forebay import App

app = App()


@app.post("/run")
def run(request):
    scope = {}
    try:
        exec(request.text(), scope)
    except OSError as error:
        return errno.errorcode[error.errno]
    except Exception as error:
        return type(error).__name__
    return f"did {scope.get('result')}"
