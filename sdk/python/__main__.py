"""The program of each Python worker: the server runs `python FOLDER`, where FOLDER contains this file.

Python looks for modules in that folder first, so that `forebay` is found without being installed.
"""

import sys

# This file must parse in every version of Python, so that an old one gets this message.
if sys.version_info < (3, 9):
    sys.exit("forebay: this is Python %d.%d (%s), and workers need Python 3.9 or newer" % (sys.version_info[0], sys.version_info[1], sys.executable))

if __name__ == "__main__":
    from forebay.worker.main import main

    sys.exit(main(sys.argv[1:]))
