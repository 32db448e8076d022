// Records by kind with a custom `read` function, so that a script is called for each.
import { rest } from 'forebay/records';

const Article = {
  read(call) {
    return call.usual();
  },
};

export default rest({ kinds: { Article }, prefix: '/o1' });
