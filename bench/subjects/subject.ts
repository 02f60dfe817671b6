import type { Dialect } from '../../src/base/domain/conversation.ts'
import type { Finding } from '../finding.ts'
import type { Cores, CpuPriority } from '../process.ts'
import type { Tally } from '../tally.ts'

/** The compared subjects, in the order of the tables. */
export const subjectNames = ['direct', 'relay', 'switchyard', 'portkey'] as const
export type SubjectName = (typeof subjectNames)[number]

/** What a subject needs to start. */
export type SubjectOptions = {
  /** Origin of the upstream: `http://127.0.0.1:PORT`. */
  upstreamOrigin: string
  cores: Cores
  /** An empty directory for this subject, with its log. */
  dir: string
  /** Writes a CPU profile on exit (switchyard only). */
  profile: boolean
  /** Number of worker processes (switchyard only). Default 1. */
  workers?: number
  /** The `telemetry` of the configuration (switchyard only). Absent: off. */
  telemetry?: object | undefined
  /** The dialects of the upstream, with a model for each (switchyard only): see `modelOf`. Default: chat. */
  dialects?: readonly Dialect[]
}

/** A running subject: the URL of its chat completions, and the headers of a request. */
export type Subject = {
  url: string
  headers: Record<string, string>
  /** The process whose CPU time and memory are measured; null for `direct`. */
  pid: number | null
  /** All processes of the gateway, its workers included (switchyard only). */
  pids?: readonly number[]
  /** Checks, after all rounds, that the books of the subject match the requests sent (switchyard only). */
  check?: (sent: Tally) => Promise<Finding[]>
  /** Adds customers with this credit, or with that of the first. Returns the request headers of each (switchyard only). */
  addCustomers?: (count: number, creditUsd?: number) => Promise<Record<string, string>[]>
  /** Starts to measure the CPU time of PostgreSQL (switchyard only). The returned function gives the microseconds used since; null without /proc. */
  watchDatabaseCpu?: () => () => number | null
  /** Starts to count updates of the balance row of the first customer (switchyard only). The returned function stops and returns the count. */
  watchBalanceRow?: () => Promise<() => Promise<number>>
  /** See Gateway (switchyard only). */
  setDatabasePriority?: (priority: CpuPriority) => void
  /** Address of the metrics (switchyard only). */
  metricsUrl?: string
  /** Waits until nearly all charges are in PostgreSQL (switchyard only), so that a round includes its deferred work. */
  settled?: () => Promise<void>
  stop: () => Promise<void>
}
