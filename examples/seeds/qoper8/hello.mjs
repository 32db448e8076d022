// What a worker answers. The second path is for servers with workers of Node and of Bun.
import { router } from 'forebay';

const app = router();
for (const path of ['/helloworld', '/bun/helloworld']) app.get(path, () => ({ hello: 'world' }));

export default app;
