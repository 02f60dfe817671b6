import { type KeyInput, keyBody } from '../../parts/KeyFields.tsx'

/** The body of POST and PATCH for the keys of the own customer: what operators change too, and what only the customer decides. */
export function ownKeyBody(input: KeyInput) {
  return { ...keyBody(input), scopes: input.mayManage ? ['manage'] : [], record_content: input.records }
}
