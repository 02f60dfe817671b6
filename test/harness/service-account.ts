import { generateKeyPairSync } from 'node:crypto'
import { type GoogleServiceAccount, parseServiceAccount } from '../../src/base/domain/cloud-credential.ts'

/** One key for all tests of a process, since making one takes a while. */
export const serviceKeys = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
})

/** The JSON of a key as Google Cloud makes it. */
export function serviceAccountJson(tokenUri: string, more: object = {}): string {
  return JSON.stringify({
    type: 'service_account',
    project_id: 'my-project',
    private_key_id: 'key-1',
    private_key: serviceKeys.privateKey,
    client_email: 'gateway@my-project.iam.gserviceaccount.com',
    client_id: '1',
    auth_uri: 'https://accounts.google.com/o/oauth2/auth',
    token_uri: tokenUri,
    ...more,
  })
}

export function serviceAccount(tokenUri: string): GoogleServiceAccount {
  return parseServiceAccount(serviceAccountJson(tokenUri))
}
