import { setTimeout as delay } from 'node:timers/promises'
import { S3Client, type S3ClientOptions, S3Errors } from '@bradenmacdonald/s3-lite-client'
import type { BackupBucket } from '../../base/domain/backup-plan.ts'
import { errorMessage } from '../../base/runtime/error-message.ts'

const ATTEMPTS_MAX = 4
const PAUSE_MS = 500

/** Repeats requests that a bucket could not serve now. All that is sent may be repeated. */
export class RetryingClient extends S3Client {
  readonly #pauseMs: number

  constructor(options: S3ClientOptions, pauseMs: number) {
    super(options)
    this.#pauseMs = pauseMs
  }

  static of({ endpoint, region, bucket, accessKeyId, secretAccessKey, isPathStyle }: BackupBucket, pauseMs = PAUSE_MS) {
    const keys = { accessKey: accessKeyId, secretKey: secretAccessKey }
    return new RetryingClient({ endPoint: endpoint, region, bucket, ...keys, pathStyle: isPathStyle }, pauseMs)
  }

  override async makeRequest(request: Parameters<S3Client['makeRequest']>[0]): Promise<Response> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await super.makeRequest(request)
      } catch (error) {
        if (attempt === ATTEMPTS_MAX || !mayPass(error)) throw error
        await delay(this.#pauseMs * 4 ** (attempt - 1))
      }
    }
  }
}

const INSUFFICIENT_STORAGE = 507

function mayPass(error: unknown): boolean {
  // Everything else is a connection that failed.
  if (!(error instanceof S3Errors.S3Error)) return true
  if (!(error instanceof S3Errors.ServerError)) return false
  const { statusCode } = error
  return (statusCode >= 500 && statusCode !== INSUFFICIENT_STORAGE) || statusCode === 429
}

/** Says why a bucket did not do what was asked, and what helps. */
export function bucketProblem(error: unknown): string {
  if (error instanceof S3Errors.ServerError) {
    const { code, statusCode, message } = error
    const known = problems[code]
    // Servers word the rest.
    return `${known ?? `${message.slice(0, 300)}`} (${statusCode} ${code})`
  }
  const { cause } = error as Error
  return cause === undefined ? errorMessage(error) : `${errorMessage(error)}: ${errorMessage(cause)}`
}

const refusedKey = 'the bucket refuses the access key. Check backup.s3.access_key_id, secret_access_key and region.'

const problems: Readonly<Record<string, string>> = {
  AccessDenied:
    'the access key may not do this. Exports need s3:PutObject and s3:AbortMultipartUpload; backups also need s3:GetObject, s3:DeleteObject, s3:ListBucket and s3:ListBucketMultipartUploads.',
  InvalidAccessKeyId: refusedKey,
  SignatureDoesNotMatch: refusedKey,
  AuthorizationHeaderMalformed: refusedKey,
  RequestTimeTooSkewed: 'the clock of this machine is wrong. Let NTP set it.',
  NoSuchBucket: 'the bucket does not exist. Create it, or correct its name in the configuration.',
  NoSuchKey: 'there is no such backup.',
  XMinioStorageFull: 'the bucket is full. Free space there, or keep fewer files.',
  QuotaExceeded: 'the bucket is full. Free space there, or keep fewer files.',
}
