// A controller of records in a process without a store. Run by stdio.test.mjs.
import { rest } from '../../dist/records/index.js';
import { serve } from '../../dist/stdio/index.js';

serve(rest({ kinds: { Article: true } }));
