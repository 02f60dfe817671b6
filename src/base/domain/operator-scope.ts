/**
 * What a key of an operator may do: `read` reads everything, `customers` changes customers, their people and keys, `money` moves money,
 * `supply` changes hosters, models and prices, `settings` the installation. None includes another one.
 */
export const operatorScopes = ['read', 'customers', 'money', 'supply', 'settings'] as const
export type OperatorScope = (typeof operatorScopes)[number]
