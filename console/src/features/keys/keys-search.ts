/** What a link to the keys of a customer opens. */
export interface KeysSearch {
  /** The dialog for a new key. */
  readonly make?: true
  /** The dialog for a key that leaked. */
  readonly leaked?: true
  /** The key with this id. */
  readonly key?: string
}

/** Keeps what is valid of the search parameters of the keys. */
export function readKeysSearch({ make, leaked, key }: Record<string, unknown>): KeysSearch {
  return {
    ...(make === true && { make }),
    ...(leaked === true && { leaked }),
    ...(typeof key === 'string' && key !== '' && { key }),
  }
}
