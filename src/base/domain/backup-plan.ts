/** How the gateway backs itself up: the section `backup` of the configuration. */
export interface BackupPlan {
  readonly place: BackupPlace
  /** A divisor of 24, so that backups begin at the same times of each day. */
  readonly everyHours: number
  /** Minutes after midnight, UTC. */
  readonly atMinute: number
  readonly keepDays: number
  readonly keepWeeks: number
  /** Without a good backup for as long, there is an alarm. */
  readonly alarmAfterHours: number
  /** How often a backup is restored as a test; 0: never. */
  readonly testDays: number
  /** Where it is restored. Null: in the data directory. */
  readonly testDirectory: string | null
  /** Whether backups have the master key and the configuration file. */
  readonly includesSecrets: boolean
}

export type BackupPlace = BackupDirectory | BackupBucket

export interface BackupDirectory {
  readonly kind: 'directory'
  /** Absolute. */
  readonly path: string
}

/** A bucket of Amazon S3, or of a server with its API. */
export interface BackupBucket {
  readonly kind: 'bucket'
  readonly endpoint: string
  readonly region: string
  readonly bucket: string
  /** Begins the names of all objects; empty, or with a slash at its end. */
  readonly prefix: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** Whether the name of the bucket is in the path; otherwise it is in the host name. */
  readonly isPathStyle: boolean
}

/** Names a place for messages, and identifies it. */
export function placeName(place: BackupPlace): string {
  return place.kind === 'directory' ? place.path : `${place.endpoint}/${place.bucket}/${place.prefix}`
}
