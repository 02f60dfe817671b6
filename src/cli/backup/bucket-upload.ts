import type { S3Client } from '@bradenmacdonald/s3-lite-client'

/** An object whose parts are being uploaded. It does not exist before its upload is completed. */
export interface Upload {
  readonly key: string
  readonly id: string
}

/**
 * Uploads an object and resolves with its size. What is longer than a part is uploaded in parts, one after the other, so one
 * part is in memory. If it fails, no object and no part remains. The `putObject` of the package would go on after a failed
 * part, and leave all parts in the bucket.
 */
export async function uploadObject(
  client: S3Client,
  key: string,
  chunks: AsyncIterable<Uint8Array>,
  partBytes: number,
): Promise<number> {
  let upload: Upload | undefined
  try {
    let bytes = 0
    const etags: string[] = []
    for await (const { part, isLast } of partsOf(chunks, partBytes)) {
      bytes += part.length
      if (isLast && upload === undefined) {
        await client.makeRequest({ method: 'PUT', objectName: key, payload: part })
        break
      }
      upload ??= await beginUpload(client, key)
      const query = { partNumber: String(etags.length + 1), uploadId: upload.id }
      const { headers } = await client.makeRequest({ method: 'PUT', objectName: key, query, payload: part })
      etags.push(headers.get('etag') ?? '')
    }
    if (upload !== undefined) await completeUpload(client, upload, etags, bytes)
    return bytes
  } catch (error) {
    // The upload may also have ended already. Leftovers are removed by the next backup.
    if (upload !== undefined) await abortUpload(client, upload).catch(() => {})
    throw error
  }
}

/** Cuts the bytes into parts of the same size. The last one is shorter, or the only one. */
async function* partsOf(
  chunks: AsyncIterable<Uint8Array>,
  partBytes: number,
): AsyncGenerator<{ readonly part: Buffer<ArrayBuffer>; readonly isLast: boolean }> {
  let part = Buffer.alloc(partBytes)
  let filled = 0
  for await (const chunk of chunks) {
    for (let rest = chunk; rest.length > 0; ) {
      if (filled === partBytes) {
        yield { part, isLast: false }
        part = Buffer.alloc(partBytes)
        filled = 0
      }
      const taken = rest.subarray(0, partBytes - filled)
      part.set(taken, filled)
      filled += taken.length
      rest = rest.subarray(taken.length)
    }
  }
  yield { part: part.subarray(0, filled), isLast: true }
}

async function beginUpload(client: S3Client, key: string): Promise<Upload> {
  const answer = await client.makeRequest({ method: 'POST', objectName: key, query: 'uploads', returnBody: true })
  const id = element('UploadId', await answer.text())
  if (id === undefined) throw new Error('the answer of the bucket has no UploadId')
  return { key, id }
}

async function completeUpload(client: S3Client, { key, id }: Upload, etags: readonly string[], bytes: number) {
  const parts = etags.map((etag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${etag}</ETag></Part>`)
  try {
    const answer = await client.makeRequest({
      method: 'POST',
      objectName: key,
      query: { uploadId: id },
      payload: `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${parts.join('')}</CompleteMultipartUpload>`,
      returnBody: true,
    })
    const text = await answer.text()
    // An error can come with the status 200, because joining parts can take longer than a client waits for a status.
    if (!text.includes('<CompleteMultipartUploadResult'))
      throw new Error(`the parts could not be joined: ${element('Code', text) ?? 'unknown answer'}`)
  } catch (error) {
    // A repeated request fails when the answer of the first one was lost.
    const found = await client.statObject(key).catch(() => undefined)
    if (found?.size !== bytes) throw error
  }
}

export async function abortUpload(client: S3Client, { key, id }: Upload): Promise<void> {
  await client.makeRequest({ method: 'DELETE', objectName: key, query: { uploadId: id }, statusCode: 204 })
}

/** Lists uploads that were neither completed nor aborted, at most 1,000. */
export async function listUploads(
  client: S3Client,
  prefix: string,
): Promise<(Upload & { readonly beganMs: number })[]> {
  const answer = await client.makeRequest({
    method: 'GET',
    objectName: '',
    query: { 'max-uploads': '1000', prefix, uploads: '' },
    returnBody: true,
  })
  const [, ...uploads] = (await answer.text()).split('<Upload>')
  return uploads.flatMap(xml => {
    const [key, id, began] = [element('Key', xml), element('UploadId', xml), element('Initiated', xml)]
    return key === undefined || id === undefined || began === undefined ? [] : [{ key, id, beganMs: Date.parse(began) }]
  })
}

/** The text of the first element of this name. Names of backups, ids and times have no entities. */
function element(name: string, xml: string): string | undefined {
  const [open, close] = [`<${name}>`, `</${name}>`]
  const start = xml.indexOf(open)
  const end = xml.indexOf(close, start)
  return start === -1 || end === -1 ? undefined : xml.slice(start + open.length, end)
}
