// A startup module written for QOper8.
import { appendFileSync } from 'node:fs';

let onStartupModule = async function (props) {
  if (props.fail) throw new Error(props.fail);
  await new Promise((resolve) => setImmediate(resolve));
  this.greeting = props.greeting;
  this.bar = props.bar;
  this.starts = (this.starts ?? 0) + 1;
  this.on('stop', () => {
    if (props.file) appendFileSync(props.file, `worker ${this.id} stops\n`);
  });
  this.on('shutdown_signal_sent', () => {
    if (props.file) appendFileSync(props.file, `worker ${this.id} says so\n`);
  });
};
export { onStartupModule };
