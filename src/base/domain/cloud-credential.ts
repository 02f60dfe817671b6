import { createPrivateKey } from 'node:crypto'

/** Proves to a cloud that requests are ours, where a fixed key in a header does not. The secrets are never logged. */
export type CloudCredential = GoogleServiceAccount | AwsKeys

/** Keys of AWS. Each request carries a signature that they make (Signature Version 4). */
export interface AwsKeys {
  readonly kind: 'aws_keys'
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** Set for temporary keys only. */
  readonly sessionToken: string | null
  /** For example `us-east-1`. */
  readonly region: string
}

/** The key of a service account of Google Cloud. Requests carry a token that this key buys for an hour. */
export interface GoogleServiceAccount {
  readonly kind: 'google_service_account'
  readonly clientEmail: string
  readonly privateKeyId: string | null
  /** PEM, of an RSA key. */
  readonly privateKey: string
  /** The project of the account; null if the file does not name one. */
  readonly projectId: string | null
  /** Where tokens are issued: Google's address, from the operator's own file. */
  readonly tokenUri: string
}

/**
 * Reads the JSON that Google Cloud makes for a key of a service account. Throws Error with the problem as the end of a
 * sentence; it quotes nothing of the key.
 */
export function parseServiceAccount(text: string): GoogleServiceAccount {
  const { type, client_email, private_key, private_key_id, project_id, token_uri } = parseObject(text)
  if (type !== 'service_account') {
    throw new Error('is not the key of a service account: its type must be service_account; create a JSON key for one')
  }
  if (typeof client_email !== 'string' || client_email === '') throw incomplete('client_email')
  if (typeof private_key !== 'string' || !isRsaKey(private_key)) throw incomplete('private_key')
  if (typeof token_uri !== 'string' || !isTokenUri(token_uri)) throw incomplete('token_uri')
  return {
    kind: 'google_service_account',
    clientEmail: client_email,
    privateKeyId: typeof private_key_id === 'string' ? private_key_id : null,
    privateKey: private_key,
    projectId: typeof project_id === 'string' ? project_id : null,
    tokenUri: token_uri,
  }
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {
    // The message of JSON.parse quotes the text, which has a private key.
  }
  throw new Error('is not a JSON object; create a JSON key for a service account of Google Cloud')
}

function incomplete(field: string): Error {
  const what = field === 'private_key' ? 'RSA key' : field === 'token_uri' ? 'https address' : 'text'
  return new Error(
    `is not a complete key of a service account: ${field} must be a valid ${what}; create a new JSON key`,
  )
}

function isRsaKey(pem: string): boolean {
  try {
    return createPrivateKey(pem).asymmetricKeyType === 'rsa'
  } catch {
    return false
  }
}

/** The assertion that is sent there buys tokens, so it never travels without encryption, except on this machine. */
function isTokenUri(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname } = new URL(text)
  return protocol === 'https:' || (protocol === 'http:' && /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname))
}
