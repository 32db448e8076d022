document.body.textContent = 'The console is not built: make sdk';
