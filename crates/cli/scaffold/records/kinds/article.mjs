{
  fields: {
    title: { type: 'text', required: true },
    status: { type: 'choice', of: ['draft', 'published'] },
    author: { type: 'record', kind: 'Person' },
    published: { type: 'date' },
    stars: { type: 'number' },
    text: { type: 'lines' },
  },
},
