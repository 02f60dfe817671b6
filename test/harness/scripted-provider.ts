import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What the provider says about the person, and how it lies. */
export interface ProviderScript {
  readonly subject?: string
  readonly email?: string
  readonly isEmailVerified?: unknown
  readonly name?: string
  /** Claims that replace those of the ID token. */
  readonly claims?: Readonly<Record<string, unknown>>
  /** `none`: without a signature. `other`: signed by a key that is not in the JWKS. */
  readonly signature?: 'right' | 'none' | 'other'
  /** The ID token has no e-mail address; the userinfo endpoint has. */
  readonly isMailInUserInfo?: boolean
  readonly tokenStatus?: number
}

/** An OpenID provider on loopback: discovery, JWKS, PKCE, codes that work once, real signatures (ES256). */
export interface ScriptedProvider {
  readonly issuer: string
  readonly clientSecret: string
  /** Plays the person who signs in at the provider: returns the address that the browser is sent to. */
  visit(authorizationUrl: string, script: ProviderScript): URL
  /** The requests to the token endpoint, as form fields. */
  readonly tokenRequests: URLSearchParams[]
  close(): Promise<void>
}

export const CLIENT_ID = 'switchyard-test'

export async function startScriptedProvider(): Promise<ScriptedProvider> {
  const clientSecret = randomBytes(16).toString('hex')
  const key = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const otherKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  const codes = new Map<string, { request: URLSearchParams; script: ProviderScript }>()
  const accessTokens = new Map<string, ProviderScript>()
  const tokenRequests: URLSearchParams[] = []
  let issuer = ''

  const server: Server = createServer(async (request, response) => {
    const send = (body: unknown, status = 200) => {
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(JSON.stringify(body))
    }
    const path = request.url!.split('?')[0]!
    if (path === '/.well-known/openid-configuration') {
      return send({
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/jwks`,
        userinfo_endpoint: `${issuer}/userinfo`,
        response_types_supported: ['code'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['ES256'],
        code_challenge_methods_supported: ['S256'],
      })
    }
    if (path === '/jwks') {
      return send({ keys: [{ ...key.publicKey.export({ format: 'jwk' }), kid: 'one', use: 'sig', alg: 'ES256' }] })
    }
    if (path === '/userinfo') {
      const script = accessTokens.get(request.headers.authorization?.replace('Bearer ', '') ?? '')
      if (script === undefined) return send({ error: 'invalid_token' }, 401)
      return send({ sub: script.subject ?? 'subject-1', ...mailOf(script) })
    }
    let body = ''
    for await (const chunk of request) body += chunk
    const fields = new URLSearchParams(body)
    tokenRequests.push(fields)
    const found = codes.get(fields.get('code') ?? '')
    codes.delete(fields.get('code') ?? '')
    const challenge = createHash('sha256')
      .update(fields.get('code_verifier') ?? '')
      .digest('base64url')
    // RFC 6749, 2.3.1: both parts are encoded like a form.
    const basic = Buffer.from(request.headers.authorization?.replace('Basic ', '') ?? '', 'base64').toString()
    if (basic.split(':').map(decodeURIComponent).join(':') !== `${CLIENT_ID}:${clientSecret}`)
      return send({ error: 'invalid_client' }, 401)
    if (found === undefined || challenge !== found.request.get('code_challenge')) {
      return send({ error: 'invalid_grant' }, 400)
    }
    const { script } = found
    if (script.tokenStatus !== undefined) return send({ error: 'server_error' }, script.tokenStatus)
    const accessToken = randomBytes(16).toString('hex')
    accessTokens.set(accessToken, script)
    const now = Math.floor(Date.now() / 1_000)
    const claims = {
      iss: issuer,
      sub: script.subject ?? 'subject-1',
      aud: CLIENT_ID,
      iat: now,
      exp: now + 300,
      auth_time: now,
      nonce: found.request.get('nonce'),
      ...(script.isMailInUserInfo ? {} : mailOf(script)),
      ...script.claims,
    }
    send({
      access_token: accessToken,
      token_type: 'Bearer',
      expires_in: 300,
      id_token: jwt(claims, script.signature ?? 'right', { right: key.privateKey, other: otherKey }),
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  return {
    issuer,
    clientSecret,
    tokenRequests,
    visit(authorizationUrl, script) {
      const request = new URL(authorizationUrl).searchParams
      const code = randomBytes(16).toString('hex')
      codes.set(code, { request, script })
      const back = new URL(request.get('redirect_uri')!)
      back.searchParams.set('code', code)
      back.searchParams.set('state', request.get('state')!)
      return back
    },
    close: () =>
      new Promise(resolve => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}

function mailOf({ email, isEmailVerified = true, name }: ProviderScript) {
  return { ...(email !== undefined && { email, email_verified: isEmailVerified }), ...(name !== undefined && { name }) }
}

function jwt(claims: object, signature: 'right' | 'none' | 'other', keys: { right: KeyObject; other: KeyObject }) {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const header = signature === 'none' ? { alg: 'none' } : { alg: 'ES256', kid: 'one' }
  const signed = `${encode(header)}.${encode(claims)}`
  if (signature === 'none') return `${signed}.`
  const bytes = sign('sha256', Buffer.from(signed), { key: keys[signature], dsaEncoding: 'ieee-p1363' })
  return `${signed}.${bytes.toString('base64url')}`
}
