import type { FileSettings } from './schema.ts'

export interface CellSettings {
  /** The name of this cell. */
  readonly name: string
  /** Shared by the gateways of all cells. */
  readonly secret: string
  /** The other cells. */
  readonly peers: readonly {
    readonly name: string
    /** Of its gateways. */
    readonly url: string
    /** Of the role that owns its tables, for commands; null: this machine runs none that needs it. */
    readonly databaseUrl: string | null
  }[]
}

/** The list may have the own cell, so that all cells can share one file. */
export function cellSettings({ name, secret, peers }: FileSettings['cells']): CellSettings | null {
  if (name === undefined || secret === undefined) return null
  return {
    name,
    secret,
    peers: peers
      .filter(peer => peer.name !== name)
      .map(peer => ({ name: peer.name, url: peer.url, databaseUrl: peer.database_url ?? null })),
  }
}
