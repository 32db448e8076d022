export default ({ payload }) => ({ workerId: payload.length === 700 ? 'as long as asked for' : `${payload.length} long` });
