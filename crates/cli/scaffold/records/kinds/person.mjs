{
  fields: {
    name: { type: 'text', required: true },
    email: { type: 'text', label: 'E-mail' },
    born: { type: 'date' },
    active: { type: 'boolean' },
    notes: { type: 'lines' },
  },
},
