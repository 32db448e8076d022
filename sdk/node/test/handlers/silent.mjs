export default ({ messageNo }, ctx) => (messageNo % 2 === 1 ? new Promise(() => {}) : { messageNo, workerId: ctx.worker.id });
