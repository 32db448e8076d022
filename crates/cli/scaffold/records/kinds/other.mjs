{
  fields: {
    name: { type: 'text', required: true },
    notes: { type: 'lines' },
  },
},
