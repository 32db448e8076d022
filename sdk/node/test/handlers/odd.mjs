export default ({ messageNo }, ctx) => {
  if (messageNo % 2 === 1) throw new Error('odd numbers are not wanted');
  return { messageNo, workerId: ctx.worker.id };
};
