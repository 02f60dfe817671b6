import { createHash, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { Sha256 } from '@aws-crypto/sha256-js'
import { SignatureV4 } from '@smithy/signature-v4'

export const S3_KEY = { accessKeyId: 'AKIDTEST', secretAccessKey: 's3-test-secret' }
const REGION = 'eu-central-1'
const BUCKET = 'backups'
const SKEW_MS_MAX = 15 * 60_000

/** What a request gets instead of its answer. `cut`: the connection ends in the middle of the body. `lost`: it is done, but not answered. */
export type S3Fault = 'cut' | 'lost' | { readonly status: number; readonly code: string }

/** One bucket on loopback. Signatures are checked by AWS's own package, and bodies by the checksum that was signed. */
export interface ScriptedS3 {
  /** For `bucketStore`. */
  readonly place: {
    readonly kind: 'bucket'
    readonly endpoint: string
    readonly region: string
    readonly bucket: string
    readonly prefix: string
    readonly accessKeyId: string
    readonly secretAccessKey: string
    readonly isPathStyle: true
  }
  /** May be changed by tests, like a bucket that loses data. */
  readonly objects: Map<string, Buffer>
  readonly uploads: Map<string, { readonly key: string; beganMs: number; readonly parts: Map<number, Buffer> }>
  /** `PUT part`, `GET object` and so on, one for each request. */
  readonly requests: string[]
  /** Decides on each request, by its entry in `requests`. */
  fault: (request: string) => S3Fault | undefined
  /** The clock of the server. */
  nowMs: () => number
  close(): Promise<void>
}

interface S3Request {
  readonly method: string
  readonly key: string
  readonly query: URLSearchParams
  readonly body: Buffer
  readonly range: string | undefined
}

export async function startScriptedS3(): Promise<ScriptedS3> {
  const objects: ScriptedS3['objects'] = new Map()
  const uploads: ScriptedS3['uploads'] = new Map()
  const requests: string[] = []

  const server = createServer(async (message, response) => {
    const url = new URL(message.url ?? '/', 'http://s3')
    const body = await buffer(message).catch(() => undefined)
    if (body === undefined) return
    const [, bucket, ...key] = decodeURIComponent(url.pathname).split('/')
    const request: S3Request = {
      method: message.method ?? '',
      key: key.join('/'),
      query: url.searchParams,
      body,
      range: message.headers.range,
    }
    const name = nameOf(request)
    requests.push(name)
    const fault = s3.fault(name)
    if (typeof fault === 'object') return sendError(response, fault.status, fault.code)
    if (fault === 'cut' && request.method === 'PUT') return void message.socket.destroy()
    const refusal = await refusalOf(message, url, body, s3.nowMs())
    if (refusal !== undefined) return sendError(response, 403, refusal)
    if (bucket !== BUCKET) return sendError(response, 404, 'NoSuchBucket')
    if (fault === 'lost') {
      answers[name]?.(request, { writeHead: () => ({ end() {} }) } as unknown as ServerResponse)
      return void message.socket.destroy()
    }
    if (fault === 'cut') return cutAnswer(request, response)
    const answer = answers[name]
    if (answer === undefined) return sendError(response, 501, 'NotImplemented')
    answer(request, response)
  })

  const answers: Record<string, (request: S3Request, response: ServerResponse) => void> = {
    'PUT object'({ key, body }, response) {
      objects.set(key, body)
      response.writeHead(200, { etag: etagOf(body) }).end()
    },
    'POST upload'({ key }, response) {
      const id = randomUUID()
      uploads.set(id, { key, beganMs: s3.nowMs(), parts: new Map() })
      sendXml(response, 'InitiateMultipartUploadResult', `<UploadId>${id}</UploadId>`)
    },
    'PUT part'({ query, body }, response) {
      const upload = uploads.get(query.get('uploadId') ?? '')
      if (upload === undefined) return sendError(response, 404, 'NoSuchUpload')
      upload.parts.set(Number(query.get('partNumber')), body)
      response.writeHead(200, { etag: etagOf(body) }).end()
    },
    'POST complete'({ key, query, body }, response) {
      const id = query.get('uploadId') ?? ''
      const upload = uploads.get(id)
      if (upload === undefined) return sendError(response, 404, 'NoSuchUpload')
      const listed = [...body.toString().matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>([^<]*)<\/ETag>/g)]
      const parts = listed.map(([, number, etag]) => {
        const part = upload.parts.get(Number(number))
        return part !== undefined && etagOf(part) === etag ? part : undefined
      })
      // As S3 does, with the status 200.
      if (parts.some(part => part === undefined)) return sendXml(response, 'Error', '<Code>InvalidPart</Code>')
      objects.set(key, Buffer.concat(parts as Buffer[]))
      uploads.delete(id)
      sendXml(response, 'CompleteMultipartUploadResult', `<Key>${key}</Key>`)
    },
    'DELETE upload'({ query }, response) {
      uploads.delete(query.get('uploadId') ?? '')
      response.writeHead(204).end()
    },
    'DELETE object'({ key }, response) {
      objects.delete(key)
      response.writeHead(204).end()
    },
    'HEAD object'({ key }, response) {
      const object = objects.get(key)
      if (object === undefined) return void response.writeHead(404).end()
      response.writeHead(200, { 'content-length': object.length, 'last-modified': new Date().toUTCString() }).end()
    },
    'GET object'({ key, range }, response) {
      const object = objects.get(key)
      if (object === undefined) return sendError(response, 404, 'NoSuchKey')
      const from = fromOf(range)
      response.writeHead(range === undefined ? 200 : 206).end(object.subarray(from))
    },
    'GET objects'({ query }, response) {
      const contents = [...objects]
        .filter(([key]) => key.startsWith(query.get('prefix') ?? ''))
        .map(([key, { length }]) => `<Contents><Key>${key}</Key><Size>${length}</Size></Contents>`)
      sendXml(response, 'ListBucketResult', `${contents.join('')}<IsTruncated>false</IsTruncated>`)
    },
    'GET uploads'({ query }, response) {
      const listed = [...uploads]
        .filter(([, { key }]) => key.startsWith(query.get('prefix') ?? ''))
        .map(
          ([id, { key, beganMs }]) =>
            `<Upload><Key>${key}</Key><UploadId>${id}</UploadId><Initiated>${new Date(beganMs).toISOString()}</Initiated></Upload>`,
        )
      sendXml(response, 'ListMultipartUploadsResult', listed.join(''))
    },
  }

  function cutAnswer({ key, range }: S3Request, response: ServerResponse): void {
    const object = objects.get(key) ?? Buffer.alloc(0)
    const from = fromOf(range)
    const half = from + Math.floor((object.length - from) / 2)
    response.writeHead(range === undefined ? 200 : 206, { 'content-length': object.length - from })
    response.write(object.subarray(from, half), () => response.destroy())
  }

  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const s3: ScriptedS3 = {
    place: {
      kind: 'bucket',
      endpoint: `http://127.0.0.1:${port}`,
      region: REGION,
      bucket: BUCKET,
      prefix: 'switchyard/',
      ...S3_KEY,
      isPathStyle: true,
    },
    objects,
    uploads,
    requests,
    fault: () => undefined,
    nowMs: Date.now,
    close() {
      server.closeAllConnections()
      return new Promise(resolve => server.close(() => resolve()))
    },
  }
  return s3
}

function nameOf({ method, key, query }: S3Request): string {
  if (method === 'GET') return query.has('uploads') ? 'GET uploads' : key === '' ? 'GET objects' : 'GET object'
  if (method === 'POST') return query.has('uploads') ? 'POST upload' : 'POST complete'
  if (!query.has('uploadId')) return `${method} object`
  return method === 'PUT' ? 'PUT part' : `${method} upload`
}

/** Returns why S3 would refuse the request. */
async function refusalOf(
  { method = '', headers }: IncomingMessage,
  url: URL,
  body: Buffer,
  nowMs: number,
): Promise<string | undefined> {
  const match = /Credential=([^/]+)\/.*SignedHeaders=([^, ]+), ?Signature=/.exec(headers.authorization ?? '')
  if (match === null) return 'AccessDenied'
  const [, accessKeyId, signedHeaders = ''] = match
  if (accessKeyId !== S3_KEY.accessKeyId) return 'InvalidAccessKeyId'
  const at = String(headers['x-amz-date']).replace(/^(....)(..)(..T..)(..)(..)Z$/, '$1-$2-$3:$4:$5Z')
  if (Math.abs(Date.parse(at) - nowMs) > SKEW_MS_MAX) return 'RequestTimeTooSkewed'
  if (headers['x-amz-content-sha256'] !== createHash('sha256').update(body).digest('hex'))
    return 'XAmzContentSHA256Mismatch'
  const names = signedHeaders.split(';')
  const signer = new SignatureV4({
    service: 's3',
    region: REGION,
    credentials: S3_KEY,
    sha256: Sha256,
    uriEscapePath: false,
    applyChecksum: false,
  })
  const signed = await signer.sign(
    {
      method,
      protocol: 'http:',
      hostname: '127.0.0.1',
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      headers: Object.fromEntries(names.map(name => [name, String(headers[name])])),
      body,
    },
    { signingDate: new Date(at), signableHeaders: new Set(names) },
  )
  return signed.headers.authorization?.split('Signature=')[1] === headers.authorization?.split('Signature=')[1]
    ? undefined
    : 'SignatureDoesNotMatch'
}

const fromOf = (range: string | undefined) => Number(/^bytes=(\d+)-/.exec(range ?? '')?.[1] ?? 0)
const etagOf = (body: Buffer) => `"${createHash('md5').update(body).digest('hex')}"`

function sendXml(response: ServerResponse, root: string, content: string): void {
  response
    .writeHead(200, { 'content-type': 'application/xml' })
    .end(`<?xml version="1.0" encoding="UTF-8"?><${root}>${content}</${root}>`)
}

function sendError(response: ServerResponse, status: number, code: string): void {
  response
    .writeHead(status, { 'content-type': 'application/xml' })
    .end(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>scripted</Message></Error>`)
}
