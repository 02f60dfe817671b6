import { Sha256 } from '@aws-crypto/sha256-js'
import { SignatureV4 } from '@smithy/signature-v4'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { awsSignatureHeaders } from './aws-signature.ts'

const text = fc.string({ minLength: 1, maxLength: 40, unit: 'binary' }).filter(each => each.isWellFormed())
const key = fc.stringMatching(/^[A-Za-z0-9/+=]{1,40}$/)

test('signatures are those of the official package', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        accessKeyId: key,
        secretAccessKey: key,
        sessionToken: fc.option(key),
        region: fc.constantFrom('us-east-1', 'eu-central-1', 'us-gov-west-1'),
        service: fc.constantFrom('bedrock-runtime', 'bedrock-mantle'),
        model: text.filter(each => each !== '.' && each !== '..'),
        query: fc.dictionary(fc.stringMatching(/^[a-z]{1,8}$/), fc.stringMatching(/^[ -~]{0,10}$/), { maxKeys: 3 }),
        body: fc.option(fc.string({ unit: 'binary' }).filter(each => each.isWellFormed())),
        epochMs: fc.integer({ min: 0, max: 4_102_444_800_000 }),
      }),
      async ({ accessKeyId, secretAccessKey, sessionToken, region, service, model, query, body, epochMs }) => {
        const search = new URLSearchParams(query).toString()
        const host = `${service}.${region}.amazonaws.com`
        const url = new URL(`https://${host}/model/${encodeURIComponent(model)}/converse${search && `?${search}`}`)
        const method = body === null ? 'GET' : 'POST'
        const ours = awsSignatureHeaders(
          { kind: 'aws_keys', accessKeyId, secretAccessKey, sessionToken, region },
          { method, url, body: body ?? '', epochMs },
        )
        const signer = new SignatureV4({
          service: service === 'bedrock-mantle' ? 'bedrock-mantle' : 'bedrock',
          region,
          credentials: { accessKeyId, secretAccessKey, ...(sessionToken !== null && { sessionToken }) },
          sha256: Sha256,
          applyChecksum: false,
        })
        const signed = await signer.sign(
          {
            method,
            protocol: 'https:',
            hostname: host,
            path: url.pathname,
            query,
            headers: { host, ...(body !== null && { 'content-type': 'application/json' }) },
            body: body ?? '',
          },
          { signingDate: new Date(epochMs) },
        )
        const { host: _, 'content-type': __, ...theirs } = signed.headers
        expect(ours).toEqual(theirs)
      },
    ),
    { numRuns: 200 },
  )
})
