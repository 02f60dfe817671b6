import type { Cores, Turn } from '../process.ts'

/** What is compared, in the order of the tables. */
export const subjectNames = ['direct', 'relay', 'switchyard', 'portkey'] as const
export type SubjectName = (typeof subjectNames)[number]

/** What a subject needs to come up. */
export type Setting = {
  /** Where the upstream listens: `http://127.0.0.1:PORT`. */
  upstreamOrigin: string
  cores: Cores
  /** An empty directory of the subject's own; its log goes to a file in it. */
  dir: string
  /** Write a CPU profile on exit (switchyard only). */
  profile: boolean
  /** Nodes behind the port (switchyard only). Default 1. */
  workers?: number
}

/** A subject that is up: where its chat completions are and how to ask for them. */
export type Subject = {
  url: string
  headers: Record<string, string>
  /** The process whose CPU time and memory count; null when there is none in between. */
  pid: number | null
  /** All processes of the gateway, its workers included (switchyard only). */
  pids?: readonly number[]
  /** Says, after all rounds, whether the subject's books agree with what it was sent. */
  check?: (sent: Tally) => Promise<Finding[]>
  /** Adds customers as rich as the first, and returns the headers of a request of each (switchyard only). */
  addCustomers?: (count: number) => Promise<Record<string, string>[]>
  /** Watches the balance row of the first customer (switchyard only). The function it resolves with ends that, and returns its updates. */
  watchBalanceRow?: () => Promise<() => Promise<number>>
  /** See Gateway (switchyard only). */
  setDatabaseTurn?: (turn: Turn) => void
  /** Waits until nearly all charges are in PostgreSQL (switchyard only): what a closed loop was spared is not to count as done. */
  settled?: () => Promise<void>
  stop: () => Promise<void>
}

/** Requests over all rounds, warm-up included. */
export type Tally = { sent: number; ok: number; failed: number }

export type Finding = { ok: boolean; text: string }
