// Handlers that block their process.
export default ({ path }) => {
  const end = performance.now() + Number(path.slice(1));
  while (performance.now() < end);
  return path;
};
