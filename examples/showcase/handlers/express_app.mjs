// An Express application that knows nothing of Forebay.
import express from 'express';

const app = express();
const router = express.Router();
router.get('/helloworld', (req, res) => res.json({ hello: 'world' }));
router.get('/users/:name', (req, res) => res.send(`Hello ${req.params.name}, from ${req.ip}`));
router.post('/echo', express.json(), (req, res) => res.json(req.body));
app.use('/express', router);
app.listen(3000, () => console.log('listening'));
