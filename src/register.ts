/** `node --import rondo/register`: TypeScript files are loaded as they are, on every runtime that Rondo supports. */
import "jiti/register";
