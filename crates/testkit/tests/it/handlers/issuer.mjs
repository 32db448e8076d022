// An OpenID provider that lets everybody in under the name of their user agent, and asks nobody anything.
import { createServer } from 'node:http';
import Provider from 'PACKAGE';

const configuration = {
  clients: [{ client_id: 'shop', client_secret: 'secret+of&the%shop', redirect_uris: ['https://any.example/'] }],
  claims: { openid: ['sub'], email: ['email'] },
  cookies: { keys: ['a key of its cookies'] },
  features: {
    devInteractions: { enabled: false },
    rpInitiatedLogout: {
      logoutSource: (ctx, form) => {
        ctx.body = `<!doctype html>${form}<button form="op.logoutForm" name="logout" value="yes"></button><script>document.querySelector('button').click()</script>`;
      },
    },
  },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@example.org` }) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  loadExistingGrant: async ({ oidc }) => {
    const grant = new oidc.provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId });
    grant.addOIDCScope('openid email');
    await grant.save();
    return grant;
  },
  pkce: { required: () => true },
};

let provider;
createServer(async (request, response) => {
  if (!provider) {
    provider = new Provider(`http://${request.headers.host}`, configuration);
    // Tests listen on free ports.
    provider.Client.prototype.redirectUriAllowed = () => true;
    provider.Client.prototype.postLogoutRedirectUriAllowed = () => true;
  }
  if (request.url.startsWith('/interaction/')) {
    const login = { accountId: request.headers['user-agent'] };
    await provider.interactionFinished(request, response, { login });
  } else {
    provider.callback()(request, response);
  }
}).listen(80);
