// What both sides of a comparison must answer, byte for byte, and the load they get.

export const LOCAL = { path: '/local', body: '{"status":"success","result":"local"}', connections: 64 };
export const HELLO = { path: '/helloworld', body: '{"hello":"world"}', connections: 64 };
