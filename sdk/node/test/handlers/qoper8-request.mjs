// A request handler written for qoper8-fastify; the query says what to do.
const handler = function ({ data }, finished) {
  switch (data.query.do) {
    case 'error':
      return finished({ error: 'no such user', about: data.params.id });
    case 'coded':
      return finished({ error: 'it is gone', errorCode: 410 });
    case 'response':
      return finished({ made: true, http_response: { statusCode: 201, headers: { location: '/users/7', 'x-worker': 'yes' } } });
    case 'nonsense':
      return finished({ made: true, http_response: { statusCode: 'twelve', headers: 7 } });
    case 'throw':
      throw new Error(`secret of ${data.headers.authorization}`);
    case 'exit':
      process.exit(4);
      break;
    case 'block':
      for (;;);
    case 'wait':
      setTimeout(finished, Number(data.query.ms), { waited: data.query.ms });
      break;
    case 'never':
      this.send({ begun: true });
      break;
    case 'silence':
      break;
    default:
      return finished({ data, greeting: this.greeting });
  }
};
export { handler };
