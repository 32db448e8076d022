export const load = ({ url, getClientAddress }) => ({ name: url.searchParams.get('name') ?? 'world', address: getClientAddress() });

export const actions = {
  default: async ({ request }) => ({ name: (await request.formData()).get('name') }),
};
