export const handler = async ({ data }) => ({ echo: data.body });
