import { createHash, createHmac } from 'node:crypto'
import type { AwsKeys } from '../../base/domain/cloud-credential.ts'

export interface SignedRequest {
  readonly method: 'GET' | 'POST'
  readonly url: URL
  /** JSON text; empty for GET. */
  readonly body: string
  readonly epochMs: number
}

const ALGORITHM = 'AWS4-HMAC-SHA256'

/**
 * Returns the headers that authorise a request to AWS (Signature Version 4). They cover the method, the address, the
 * host, the time and the body. AWS refuses them after five minutes, so a request is signed when it is sent.
 */
export function awsSignatureHeaders(
  keys: AwsKeys,
  { method, url, body, epochMs }: SignedRequest,
): Record<string, string> {
  const { accessKeyId, secretAccessKey, sessionToken, region } = keys
  const time = new Date(epochMs).toISOString().replace(/[-:]|\.\d{3}/g, '')
  const date = time.slice(0, 8)
  const service = url.hostname.startsWith('bedrock-mantle.') ? 'bedrock-mantle' : 'bedrock'
  // Sorted by name.
  const signed: Record<string, string> = {
    ...(method === 'POST' && { 'content-type': 'application/json' }),
    host: url.host,
    'x-amz-date': time,
    ...(sessionToken !== null && { 'x-amz-security-token': sessionToken }),
  }
  const names = Object.keys(signed).join(';')
  const canonical = [
    method,
    url.pathname.split('/').map(encodeSegment).join('/'),
    canonicalQuery(url),
    ...Object.entries(signed).map(([name, value]) => `${name}:${value}`),
    '',
    names,
    sha256(body),
  ].join('\n')
  const scope = `${date}/${region}/${service}/aws4_request`
  const key = [date, region, service, 'aws4_request'].reduce<string | Buffer>(hmac, `AWS4${secretAccessKey}`)
  const signature = hmac(key, [ALGORITHM, time, scope, sha256(canonical)].join('\n')).toString('hex')
  return {
    authorization: `${ALGORITHM} Credential=${accessKeyId}/${scope}, SignedHeaders=${names}, Signature=${signature}`,
    'x-amz-date': time,
    ...(sessionToken !== null && { 'x-amz-security-token': sessionToken }),
  }
}

/** The path is encoded already; all services but S3 sign it encoded a second time. */
function encodeSegment(segment: string): string {
  return encodeURIComponent(segment).replace(
    /[!'()*]/g,
    character => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

function canonicalQuery({ searchParams }: URL): string {
  return [...searchParams]
    .map(([name, value]) => `${encodeSegment(name)}=${encodeSegment(value)}`)
    .sort()
    .join('&')
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}
