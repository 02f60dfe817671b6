import { z } from 'zod'

/** A label of a request or of a key. The CHECK of api_key in sql/schema.sql has the same pattern. */
export const LABEL = /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,63}$/

/** Completes the sentence "`label` must be ...". */
export const labelMeaning = '1 to 64 letters, digits or . _ : / @ -, beginning with a letter or digit'

export const label = z.string({ error: labelMeaning }).regex(LABEL, { error: labelMeaning })
