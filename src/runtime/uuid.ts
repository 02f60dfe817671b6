/** A UUID of any version as text, in either case. Without flags, so that it can stand in a JSON Schema as it is. */
export const UUID = /^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/
