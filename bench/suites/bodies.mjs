// The responses that both sides of a comparison must give, byte for byte, and their loads.

export const LOCAL = { path: '/local', body: '{"status":"success","result":"local"}', connections: 64 };
export const HELLO = { path: '/helloworld', body: '{"hello":"world"}', connections: 64 };
