import { HttpError, router } from 'forebay';

const app = router();

app.get('/', () => ({ hello: 'world' }));

app.get('/hello/:name', (request) => ({ hello: request.params.name }));

app.post('/sum', async (request) => {
  const numbers = await request.json();
  if (!Array.isArray(numbers)) throw new HttpError(400, 'expected an array of numbers');
  return { sum: numbers.reduce((sum, number) => sum + number, 0) };
});

export default app;
