import type { ChatSetup } from './chat-setup.ts'
import { type Turn, titleOf } from './talk.ts'

/** A talk that the browser keeps. No server gets it. */
export interface SavedTalk {
  readonly id: string
  /** The person and the customer: other people at this browser do not see it. */
  readonly owner: string
  readonly title: string
  /** ISO 8601. */
  readonly changedAt: string
  readonly setup: ChatSetup
  readonly turns: readonly Turn[]
}

export type TalkHead = Pick<SavedTalk, 'id' | 'title' | 'changedAt'>

export interface TalkStore {
  /** False: the browser keeps nothing, so talks end with the tab. */
  readonly isKept: boolean
  /** The talks of an owner, the last changed first. */
  list(owner: string): Promise<readonly TalkHead[]>
  read(id: string): Promise<SavedTalk | undefined>
  /** Keeps a talk, also in place of an earlier state, and drops the owner's oldest beyond `TALKS_MAX`. */
  write(talk: SavedTalk): Promise<void>
  rename(id: string, title: string): Promise<void>
  remove(ids: readonly string[]): Promise<void>
}

export const TALKS_MAX = 50
export const TALK_DAYS_MAX = 30

const DAY_MS = 86_400_000

const DATABASE = 'switchyard-talks'

let opened: Promise<TalkStore> | undefined
let kept: Promise<unknown> = Promise.resolve()

/** The talks of this browser, with all that `keepTalk` was called for. */
export async function talkStore(): Promise<TalkStore> {
  await kept
  return openStore()
}

/**
 * Writes a talk, unless the browser has it as it is. Removes one without turns: its only prompt has come back unanswered.
 * Calls take effect one after the other, so that an earlier state never replaces a later one.
 */
export function keepTalk(talk: Pick<SavedTalk, 'id' | 'owner' | 'setup' | 'turns'>): Promise<void> {
  const keeping = kept.then(async () => {
    const store = await openStore()
    if (talk.turns.length === 0) return store.remove([talk.id])
    const known = await store.read(talk.id)
    if (known !== undefined && JSON.stringify(known.turns) === JSON.stringify(talk.turns)) return
    await store.write({ ...talk, title: known?.title ?? titleOf(talk.turns), changedAt: new Date().toISOString() })
  })
  kept = keeping.catch(() => {})
  return keeping
}

/** In memory if the browser has no place for talks, as in some private windows. */
function openStore(): Promise<TalkStore> {
  opened ??= openDatabase().then(deleteOld).then(databaseStore, memoryStore)
  return opened
}

/** Heads are apart, because a list must not read the images of all talks. */
function openDatabase(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(DATABASE, 1)
    opening.onupgradeneeded = () => {
      opening.result.createObjectStore('heads', { keyPath: 'id' }).createIndex('owner', 'owner')
      opening.result.createObjectStore('talks', { keyPath: 'id' })
    }
    opening.onsuccess = () => resolve(opening.result)
    opening.onerror = () => reject(opening.error)
  })
}

/** Deletes the old talks of all people at this browser: they may never come back to do it. */
async function deleteOld(database: IDBDatabase): Promise<IDBDatabase> {
  const writing = database.transaction(['heads', 'talks'], 'readwrite')
  const since = new Date(Date.now() - TALK_DAYS_MAX * DAY_MS).toISOString()
  const heads = await resultOf<Head[]>(writing.objectStore('heads').getAll())
  for (const { id, changedAt } of heads) if (changedAt < since) removeFrom(writing, id)
  await ended(writing)
  return database
}

type Head = TalkHead & Pick<SavedTalk, 'owner'>

function databaseStore(database: IDBDatabase): TalkStore {
  const heads = (transaction: IDBTransaction, owner: string) =>
    resultOf<Head[]>(transaction.objectStore('heads').index('owner').getAll(owner))
  const begin = (mode: IDBTransactionMode) => database.transaction(['heads', 'talks'], mode)
  return {
    isKept: true,
    async list(owner) {
      return newestFirst(await heads(begin('readonly'), owner))
    },
    read: id => resultOf(begin('readonly').objectStore('talks').get(id)),
    async write(talk) {
      const writing = begin('readwrite')
      writing.objectStore('talks').put(talk)
      writing.objectStore('heads').put(headOf(talk))
      const all = newestFirst(await heads(writing, talk.owner))
      for (const { id } of all.slice(TALKS_MAX)) removeFrom(writing, id)
      await ended(writing)
    },
    async rename(id, title) {
      const writing = begin('readwrite')
      const talk = await resultOf<SavedTalk | undefined>(writing.objectStore('talks').get(id))
      if (talk === undefined) return
      writing.objectStore('talks').put({ ...talk, title })
      writing.objectStore('heads').put(headOf({ ...talk, title }))
      await ended(writing)
    },
    async remove(ids) {
      const writing = begin('readwrite')
      for (const id of ids) removeFrom(writing, id)
      await ended(writing)
    },
  }
}

function removeFrom(writing: IDBTransaction, id: string): void {
  writing.objectStore('talks').delete(id)
  writing.objectStore('heads').delete(id)
}

function headOf({ id, owner, title, changedAt }: SavedTalk): Head {
  return { id, owner, title, changedAt }
}

function newestFirst<Each extends TalkHead>(heads: readonly Each[]): Each[] {
  return heads.toSorted((a, b) => (a.changedAt < b.changedAt ? 1 : -1))
}

function resultOf<T>(asked: IDBRequest): Promise<T> {
  return new Promise((resolve, reject) => {
    asked.onsuccess = () => resolve(asked.result as T)
    asked.onerror = () => reject(asked.error)
  })
}

function ended(writing: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    writing.oncomplete = () => resolve()
    writing.onabort = () => reject(writing.error)
  })
}

function memoryStore(): TalkStore {
  const talks = new Map<string, SavedTalk>()
  const of = (owner: string) => newestFirst([...talks.values()].filter(talk => talk.owner === owner))
  return {
    isKept: false,
    list: async owner => of(owner),
    read: async id => talks.get(id),
    async write(talk) {
      talks.set(talk.id, talk)
      for (const { id } of of(talk.owner).slice(TALKS_MAX)) talks.delete(id)
    },
    async rename(id, title) {
      const talk = talks.get(id)
      if (talk !== undefined) talks.set(id, { ...talk, title })
    },
    async remove(ids) {
      for (const id of ids) talks.delete(id)
    },
  }
}
