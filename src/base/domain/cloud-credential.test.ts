import { generateKeyPairSync } from 'node:crypto'
import { expect, test } from 'vitest'
import { parseServiceAccount } from './cloud-credential.ts'

const pem = { type: 'pkcs8', format: 'pem' } as const
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export(pem) as string
const elliptic = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export(pem) as string
const key = {
  type: 'service_account',
  project_id: 'p',
  private_key_id: 'k',
  private_key: rsa,
  client_email: 'a@p.iam.gserviceaccount.com',
  token_uri: 'https://oauth2.googleapis.com/token',
}

test('reads the key that Google Cloud makes', () => {
  expect(parseServiceAccount(JSON.stringify(key))).toEqual({
    kind: 'google_service_account',
    clientEmail: 'a@p.iam.gserviceaccount.com',
    privateKeyId: 'k',
    privateKey: rsa,
    projectId: 'p',
    tokenUri: 'https://oauth2.googleapis.com/token',
  })
})

test.each<[what: string, written: unknown, problem: string]>([
  ['a PEM key', rsa, 'is not a JSON object'],
  ['JSON text', '"secret"', 'is not a JSON object'],
  ['the login of a user', { ...key, type: 'authorized_user' }, 'its type must be service_account'],
  ['no mail', { ...key, client_email: '' }, 'client_email must be a valid text'],
  ['a cut key', { ...key, private_key: rsa.slice(0, -200) }, 'private_key must be a valid RSA key'],
  ['an elliptic key', { ...key, private_key: elliptic }, 'private_key must be a valid RSA key'],
  ['no token endpoint', { ...key, token_uri: undefined }, 'token_uri must be a valid https address'],
  [
    'a token endpoint without TLS',
    { ...key, token_uri: 'http://a.example/' },
    'token_uri must be a valid https address',
  ],
])('%s is refused, and the problem quotes no secret', (_what, written, problem) => {
  const text = typeof written === 'string' ? written : JSON.stringify(written)
  const read = () => parseServiceAccount(text)
  expect(read).toThrow(problem)
  expect(read).not.toThrow(/PRIVATE|secret|a\.example/)
})
