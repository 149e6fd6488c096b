// The client of the official SDK, and a person who agrees to everything; prints what `greet` says.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const url = new URL(process.argv[2]);
const known = {};
let code;
const provider = {
    redirectUrl: 'http://127.0.0.1:9/callback',
    clientMetadata: {
        client_name: 'test', redirect_uris: ['http://127.0.0.1:9/callback'],
        grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
        token_endpoint_auth_method: 'client_secret_post',
    },
    clientInformation: () => known.client,
    saveClientInformation: value => { known.client = value; },
    tokens: () => known.tokens,
    saveTokens: value => { known.tokens = value; },
    codeVerifier: () => known.verifier,
    saveCodeVerifier: value => { known.verifier = value; },
    redirectToAuthorization: async address => {
        let place = address;
        for (let hops = 0; hops < 3 && !code; hops++) {
            const reply = await fetch(place, { redirect: 'manual' });
            place = new URL(reply.headers.get('location'), place);
            code = place.searchParams.get('code');
        }
    },
};
const transport = () => new StreamableHTTPClientTransport(url, { authProvider: provider });
const first = transport();
try {
    await new Client({ name: 'test', version: '1' }).connect(first);
} catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await first.finishAuth(code);
}
const client = new Client({ name: 'test', version: '1' });
await client.connect(transport());
const result = await client.callTool({ name: 'greet', arguments: { name: 'Ada' } });
console.log(JSON.stringify(result.content));
await client.close();
