/** What a link to the keys of a customer opens. */
export interface KeysSearch {
  /** The dialog for a new key. */
  readonly make?: true
  /** The key with this id. */
  readonly key?: string
}

/** Keeps what is valid of the search parameters of the keys. */
export function readKeysSearch({ make, key }: Record<string, unknown>): KeysSearch {
  return { ...(make === true && { make }), ...(typeof key === 'string' && key !== '' && { key }) }
}
